// Lists the chats and makes new ones, through the same API that everybody uses.
const api = "/v1/orgs/local/chats";
const list = document.querySelector("#chats");
const status = document.querySelector("#status");
const more = document.querySelector("#more");
const form = document.querySelector("#new-chat");
let cursor = null;

async function ask(path, options) {
  const response = await fetch(path, options);
  const body = await response.json();
  if (!response.ok) throw new Error(body.message);
  return body;
}

function row(chat) {
  const item = document.createElement("li");
  const title = document.createElement("span");
  title.textContent = chat.title ?? "Untitled";
  const time = document.createElement("time");
  time.dateTime = chat.createdAt;
  time.textContent = new Date(chat.createdAt).toLocaleString();
  item.append(title, time);
  return item;
}

async function loadMore() {
  try {
    const page = await ask(cursor ? `${api}?cursor=${cursor}` : api);
    list.append(...page.items.map(row));
    cursor = page.nextCursor;
    more.hidden = cursor === null;
    status.textContent = list.children.length ? "" : "No chats yet. Make the first one above.";
  } catch (error) {
    status.textContent = `Could not load the chats: ${error.message}`;
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const title = form.elements.title.value;
  const headers = { "content-type": "application/json" };
  try {
    list.prepend(row(await ask(api, { method: "POST", headers, body: JSON.stringify({ title }) })));
    form.reset();
    status.textContent = "";
  } catch (error) {
    status.textContent = `Could not make the chat: ${error.message}`;
  }
});
more.addEventListener("click", loadMore);
await loadMore();
