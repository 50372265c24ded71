"""Every exception this package raises on purpose.

    MemoryFault
    ├── UsageError              the caller asked for something impossible (exit 2)
    │   ├── SettingsError       config.toml or the environment holds a bad value
    │   ├── UnknownTimePhrase   a time phrase that cannot be resolved
    │   └── BadId               an id that is not of any known form
    ├── NotFound                a well-formed id, project or file that does not exist
    ├── StoreError              the database cannot be used
    │   ├── StoreBusy           another process holds it
    │   ├── StoreCorrupt        it is damaged
    │   ├── StoreFull           the disk is full or read-only
    │   └── StoreNewer          a later version wrote it
    ├── LeaseLost               another process took over the pipeline
    └── SummarizerError         a summary could not be made

Each message says what happened and what to do next.
"""


class MemoryFault(Exception):
    """Base of all errors that are shown to the user without a traceback."""


class UsageError(MemoryFault):
    """The request itself is wrong."""


class SettingsError(UsageError):
    """A setting is unknown or out of range."""


class UnknownTimePhrase(UsageError):
    """A time phrase could not be resolved."""


class BadId(UsageError):
    """An id has no known form."""


class NotFound(MemoryFault):
    """Nothing is stored under this id or name."""


class StoreError(MemoryFault):
    """The database cannot be used."""


class StoreBusy(StoreError):
    """Another process holds the database."""


class StoreCorrupt(StoreError):
    """The database file is damaged."""


class StoreFull(StoreError):
    """The disk is full or the file is read-only."""


class StoreNewer(StoreError):
    """The database was written by a later version."""


class LeaseLost(MemoryFault):
    """Another process took over the pipeline; whatever was in progress must not be written."""


class SummarizerError(MemoryFault):
    """A summary could not be made."""
