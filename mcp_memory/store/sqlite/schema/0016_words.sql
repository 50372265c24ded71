-- Why: the index holds words with ß in both spellings, and pairs of characters for all scripts without blanks, such as in
-- 佐々木 and 𠮷野家. It is filled again once these steps are taken, since its rows can only be taken out as they were put in.
INSERT INTO search (search) VALUES ('delete-all');
