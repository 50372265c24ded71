-- Why: what is local to a machine has a file of its own, inbox.db, to which the rows were taken before this runs. A hook
-- of an earlier version knows no file of this one, and leaves what it captures in the spool.
DROP TABLE inbox;
DROP TABLE brief;
DROP TABLE checkpoint;
