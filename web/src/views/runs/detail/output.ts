// What engines say of tools, as the renderers know it.
import { isObject, parsed, returned } from '../../../render/value';

/** The name of a tool, and the server that it is of. */
export function nameOf(tool: string): { tool: string; server?: string } {
  const parts = /^mcp__(.+?)__(.+)$/s.exec(tool);
  if (parts) return { tool: parts[2]!, server: parts[1]! };
  return { tool: tool || 'Tool' };
}

/** What a tool gave: engines have a text, the blocks of MCP alone, or all of the answer of a server. */
export function answerOf(output: unknown): unknown {
  // Codex spells it so.
  if (isObject(output) && 'structured_content' in output) {
    const { structured_content: structuredContent, ...rest } = output;
    return { ...rest, structuredContent };
  }
  if (!Array.isArray(output) || !output.length) return output;
  const isBlocks = output.every((block) => isObject(block) && typeof block.type === 'string');
  return isBlocks ? { content: output.map(blockOf) } : output;
}

/** What the tool itself returned. Where an engine has only texts, an object is one that reads as JSON. */
export function valueOf(answer: unknown): unknown {
  return typeof answer === 'string' ? (parsed(answer) ?? answer) : returned(answer);
}

/** Claude has pictures in its own way. */
function blockOf(block: Record<string, unknown>): Record<string, unknown> {
  const source = block.source;
  if (block.type !== 'image' || !isObject(source) || source.type !== 'base64') return block;
  return { type: 'image', mimeType: source.media_type, data: source.data };
}
