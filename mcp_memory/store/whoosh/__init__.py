"""The second index: Whoosh, kept beside the database and in step with it. Imported only when it is chosen."""
