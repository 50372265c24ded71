-- Why: a question looks at each row that holds one of its words, and with the words in it a row of the index takes a
-- kilobyte, so that nearly every row is a page of its own. PostgreSQL puts a value beside the row only where the row is
-- longer than 2,000 bytes, whatever toast_tuple_target says. So each row is made that long, by blanks that take 31 bytes
-- once they are compressed: then the words lie beside it, 50 rows in a page, and the pages of millions in memory. Rows of
-- before stay as they are until they are indexed anew.
ALTER TABLE search ADD COLUMN blanks text NOT NULL DEFAULT repeat(' ', 2100);
-- What is new is put into the index at once: a list of what is yet to be put in is read by each question, and for fear of
-- it PostgreSQL reads all words of a small memory instead.
ALTER INDEX search_terms SET (fastupdate = off);
