-- Why: what a tool wrote was found by its beginning and its end alone, and the plurals of acronyms (READMEs) by halves of
-- words. The index is filled anew once these steps are taken, since its rows can only be taken out as they were put in.
INSERT INTO search (search) VALUES ('delete-all');
