"""Drives the client of FastMCP."""

from fastmcp.client import Client, SSETransport, StdioTransport, StreamableHttpTransport
from job import Job, answers, main


async def drive(job: Job) -> Job:
    if "command" in job:
        way = StdioTransport(command=job["command"], args=job["args"])
    elif job["transport"] == "sse":
        way = SSETransport(job["url"], headers=job["headers"])
    else:
        way = StreamableHttpTransport(job["url"], headers=job["headers"])
    async with Client(way, mode=job["era"]) as client:
        listed = await client.list_tools()
        return {
            "protocolVersion": client.protocol_version,
            "tools": [tool.name for tool in listed],
            "answers": await answers(job, client.call_tool_mcp),
        }


main(drive)
