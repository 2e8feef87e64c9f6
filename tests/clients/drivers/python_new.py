"""Drives the newest MCP SDK of Python, which knows both eras."""

import httpx2
from job import Job, answers, main
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


async def drive(job: Job) -> Job:
    async with httpx2.AsyncClient(headers=job["headers"], timeout=60) as http:
        if "command" in job:
            server = StdioServerParameters(command=job["command"], args=job["args"])
        elif job["transport"] == "sse":
            server = sse_client(job["url"], headers=job["headers"])
        else:
            server = streamable_http_client(job["url"], http_client=http)
        async with Client(server, mode=job["era"]) as client:
            listed = await client.list_tools()
            return {
                "protocolVersion": client.protocol_version,
                "tools": [tool.name for tool in listed.tools],
                "answers": await answers(job, client.call_tool),
            }


main(drive)
