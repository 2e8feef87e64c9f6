-- Why: from this version on clients call tools over MCP. A client that names no chat has one of its own, which it finds again
-- when it comes back.

-- Whose chat it is: a token, or the owner where there are none.
CREATE TABLE mcp_chats (
    organization_id ID NOT NULL,
    owner ID NOT NULL,
    chat_id ID NOT NULL,
    PRIMARY KEY (organization_id, owner),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE
);

--@postgres SELECT kitbag_protect('mcp_chats');
