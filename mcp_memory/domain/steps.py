"""What to do next, in the words of whoever reads it: an agent calls tools, a person types commands.

Errors and answers name a step; the surface that shows them chooses the words.
"""

from mcp_memory.errors import Step

# After an error, a sentence.
SEE_ALL = Step("Call toc_root to see what there is.", "`mcp-memory toc` shows what there is.")
SEE_PROJECTS = Step("Call toc_root with project '*' to see all.", "`mcp-memory projects` lists them.")
SEE_GRIPS = Step(
    "Grip ids stand behind the bullets of get_node and the hits of teleport.",
    "Grip ids stand behind the bullets of `mcp-memory node` and the hits of `mcp-memory search`.",
)
SEE_WHOLE_GRIP = Step("teleport shows the whole id of one.", "`mcp-memory search` shows the whole id of one.")
SEE_SESSIONS = Step("teleport(query) names sessions.", "`mcp-memory search` and `mcp-memory grip` name sessions.")
FIND_TERMS = Step("teleport(query) finds terms.", "`mcp-memory search QUERY` finds terms.")
FIND_OTHERWISE = Step("Try other words, or browse_time(when).", "Try other words, or `mcp-memory timeline WHEN`.")
KEEP_NOTE = Step("remember(text) keeps a note.", "`mcp-memory remember TEXT` keeps a note, `import` loads old history.")
TAKE_SNAPSHOT = Step("build_context gives one in its last line.", "`mcp-memory snapshot` takes one.")

# In the last line of an answer, a list.
TO_WORDS = Step("expand_grip(grip_id) for the exact words", "`grip ID` for the exact words")
DOWN = Step("get_node(node_id) to go down", "`node ID` to go down")
DOWN_TOPIC = Step("get_node(node_id, topic) to go down", "`node ID --topic T` to go down")
MORE_OF_ONE = Step("get_node(node_id) for more of one", "`node ID` for more of one")
TERM = Step("teleport(query) for a term", "`search QUERY` for a term")
TERM_OF_IT = Step("teleport(query) for a term of it", "`search QUERY` for a term of it")
TIME = Step("browse_time(when) for a time", "`timeline WHEN` for a time")
ALL_TIMES = Step("toc_root() shows which times are", "`toc` shows which times are")
FINDS_TERMS = Step("teleport(query) finds terms", "`search QUERY` finds terms")
ALL_TOPICS = Step("toc_root() for all", "`toc` for all")
WITHOUT_TOPIC = Step("the same without topic for all of it", "the same without `--topic` for all of it")
OTHER_WORDS = Step("teleport(query) for other words", "`search QUERY` for other words")
ALL_PROJECTS = Step('toc_root(project="*") for all projects', "`toc --project '*'` for all projects")
NOTES = Step("remember(text) keeps a note", "`remember TEXT` keeps a note")
ASK_OTHERWISE = Step(
    "teleport with other words, browse_time(when), or toc_root() to look around",
    "`search` with other words, `timeline WHEN`, or `toc` to look around",
)

# Within an answer.
FOUND_NOW = Step(
    "teleport(query) finds them now.", "`mcp-memory process` does so now, and `mcp-memory search QUERY` finds them."
)
ANY_OTHER_DAY = Step("browse_time(when) shows any other.", "`timeline WHEN` shows any other.")
PASS_PROJECT = Step("pass project.", "name one with --project.")
MORE = Step("… {} more: raise budget_tokens", "… {} more: raise --budget")
MORE_OF_TIME = Step(
    "… {} more in this time: use cursor or a narrower time",
    "… {} more in this time: raise --budget or name a narrower time",
)


def more_in(node_id: str) -> Step:
    """Something was left out, and where it is shown."""
    return Step(
        f'… {{}} more: get_node("{node_id}"), or more budget_tokens',
        f"… {{}} more: `node {node_id}`, or a larger --budget",
    )


def too_small(least: int) -> Step:
    return Step(f"Too small: budget_tokens={least} is the least.", f"Too small: --budget {least} is the least.")


def listed(*steps: Step) -> Step:
    """Several steps in one line."""
    return Step(", ".join(step.call for step in steps), ", ".join(step.command for step in steps))
