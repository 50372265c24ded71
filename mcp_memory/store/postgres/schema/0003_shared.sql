-- Why: one shares a project or a session with a team. What is shared is sent to the team's server, and what is taken back
-- or forgotten is withdrawn there, when it can be reached. Of a memory of one's own; a team's server has no rows here.

-- What of a project is shared: all that is said there from a time on.
CREATE TABLE shared_project (
    project  bigint PRIMARY KEY,
    since_ms bigint NOT NULL
);
-- The same of a session, whatever its project does; without a time it stays private though its project is shared. key: a
-- hash of client and name, by which it is known when it comes again after all of it was forgotten.
CREATE TABLE shared_session (
    key      bytea PRIMARY KEY,
    session  bigint NOT NULL,
    since_ms bigint
);
CREATE INDEX shared_session_session ON shared_session (session);
-- Events that the team's server has not taken yet.
CREATE TABLE to_push (event bigint PRIMARY KEY);
-- Keys of events that it may have, and is to give back; forget: and never to take again.
CREATE TABLE to_withdraw (
    key    bytea PRIMARY KEY,
    forget bigint NOT NULL
);
