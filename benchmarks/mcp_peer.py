"""The yardstick of B1: an MCP server whose one tool gives back its text. `python mcp_peer.py PORT`."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("bench", log_level="ERROR")


@server.tool()
def query(text: str) -> str:
    """Gives the text back."""
    return text


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
