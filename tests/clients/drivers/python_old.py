"""Drives the MCP SDK of Python from before the stateless era."""

from contextlib import AsyncExitStack

from job import Job, answers, main
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client


async def drive(job: Job) -> Job:
    async with AsyncExitStack() as stack:
        if "command" in job:
            way = stdio_client(StdioServerParameters(command=job["command"], args=job["args"]))
        elif job["transport"] == "sse":
            way = sse_client(job["url"], headers=job["headers"])
        else:
            way = streamablehttp_client(job["url"], headers=job["headers"])
        read, write = (await stack.enter_async_context(way))[:2]
        session = await stack.enter_async_context(ClientSession(read, write))
        opened = await session.initialize()
        listed = await session.list_tools()
        return {
            "protocolVersion": opened.protocolVersion,
            "tools": [tool.name for tool in listed.tools],
            "answers": await answers(job, session.call_tool),
        }


main(drive)
