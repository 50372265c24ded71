-- Why: one shares a project or a session with a team. What is shared is sent to the team's server, and what is taken back
-- or forgotten is withdrawn there, when it can be reached.

-- What of a project is shared: all that is said there from a time on.
CREATE TABLE shared_project (
    project  INTEGER PRIMARY KEY,
    since_ms INTEGER NOT NULL
);
-- The same of a session, whatever its project does; without a time it stays private though its project is shared. key: a
-- hash of client and name, by which it is known when it comes again after all of it was forgotten.
CREATE TABLE shared_session (
    key      BLOB    PRIMARY KEY,
    session  INTEGER NOT NULL,
    since_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX shared_session_session ON shared_session (session);
-- Events that the team's server has not taken yet.
CREATE TABLE to_push (event INTEGER PRIMARY KEY);
-- Keys of events that it may have, and is to give back; forget: and never to take again.
CREATE TABLE to_withdraw (
    key    BLOB    PRIMARY KEY,
    forget INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX event_shared ON event (session) WHERE visibility = 'team';
