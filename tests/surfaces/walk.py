"""All that can be got out of a server over MCP, by whatever the server itself lists, so that nothing is left out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Iterator, Mapping
from typing import Any

from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp_types import (
    ElicitRequestParams,
    ElicitResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

#: What is typed into an argument of a prompt, to see what it is completed to.
TYPED = ("", "d", "p", "pl", "n", "t")
#: Arguments that stand beside those that are tried, so that an answer holds as much as it can.
_WIDE = ("budget_tokens", "before", "after", "confirm", "top_k")
Values = Mapping[str, list[Any]]

#: By the name of an argument, what is passed of those that do not say what is looked for.
PLAIN: Values = {
    "text": ["A word for the others."],
    "before": [20],
    "after": [20],
    "limit": [50],
    "top_k": [20],
    "budget_tokens": [20_000],
    "confirm": [True],
    "part": [False],
    "include_memo": [True],
    "diverse": [True],
    "pin": [True],
    "levels": [["year", "day", "segment"]],
    "order": ["u-curve"],
    "kind": ["event", "segment", "day"],
    "since": ["s0.0.0"],
    "cursor": ["at:1"],
}


def calls(schema: Mapping[str, Any], values: Values) -> Iterator[dict[str, Any]]:
    """Every value of every argument, with the required ones beside it and as much of an answer as there can be."""
    told = list[dict[str, Any]]()
    for arguments in _calls(schema, values):
        if arguments not in told:
            told.append(arguments)
            yield arguments


def _calls(schema: Mapping[str, Any], values: Values) -> Iterator[dict[str, Any]]:
    names, required = list(schema["properties"]), schema.get("required", [])
    unknown = [name for name in names if name not in values]
    assert not unknown, f"teach the walk what to pass as {unknown}"
    wide = {name: values[name][0] for name in _WIDE if name in names}
    for name in names:
        for value in values[name]:
            others = [other for other in required if other != name]
            for beside in values[others[0]] if others else [None]:
                yield {**wide, **dict.fromkeys(others, beside), name: value}
    if "project" in names:
        for project in values["project"]:
            for name in required:
                yield from ({**wide, name: value, "project": project} for value in values[name])


async def agree(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={})


class Walk:
    """Asks for everything; what was answered, by the name of what gave it. `leaves`: tools and prompts left alone."""

    def __init__(self, client: Client, values: Values, leaves: Collection[str] = ()) -> None:
        self.client, self.values, self.leaves = client, values, leaves
        self.found: dict[str, list[str]] = {}

    async def everything(self) -> dict[str, list[str]]:
        for tool in (await self.client.list_tools()).tools:
            for arguments in calls(tool.input_schema, self.values) if tool.name not in self.leaves else ():
                await self.take(tool.name, self.client.call_tool(tool.name, arguments))
        await self.documents()
        await self.prompts()
        return self.found

    async def documents(self) -> None:
        for resource in (await self.client.list_resources()).resources:
            await self.take(str(resource.uri), self.client.read_resource(str(resource.uri)))
        for template in (await self.client.list_resource_templates()).resource_templates:
            uri = template.uri_template
            (name,) = re.findall(r"\{(\w+)\}", uri)
            values = self.values[name]
            for value in values:
                await self.take(uri, self.client.read_resource(uri.replace(f"{{{name}}}", value)))
            for typed in ["", *(value[:4] for value in values), *(f"{value}@" for value in values)]:
                ref = ResourceTemplateReference(uri=uri)
                await self.take("completion", self.client.complete(ref, {"name": name, "value": typed}))

    async def prompts(self) -> None:
        for prompt in (await self.client.list_prompts()).prompts:
            for argument in prompt.arguments or ():
                for value in self.values[argument.name] if prompt.name not in self.leaves else ():
                    await self.take(prompt.name, self.client.get_prompt(prompt.name, {argument.name: value}))
                for typed in TYPED:
                    ref = PromptReference(name=prompt.name)
                    await self.take("completion", self.client.complete(ref, {"name": argument.name, "value": typed}))

    async def take(self, name: str, work: Awaitable[Any]) -> None:
        try:
            text = text_of(await work)
        except MCPError as error:
            text = f"{error.message} {error.data}"
        self.found.setdefault(name, []).append(text)


def text_of(result: Any) -> str:
    texts = []
    for part in [*(getattr(result, "content", None) or ()), *(getattr(result, "contents", None) or ())]:
        assert isinstance(part, TextContent | TextResourceContents)
        texts.append(part.text)
    texts += [message.content.text for message in getattr(result, "messages", None) or ()]
    completion = getattr(result, "completion", None)
    return "\n".join([*texts, *(completion.values if completion else ())])
