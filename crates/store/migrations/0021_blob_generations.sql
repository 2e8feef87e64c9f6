-- Why: blobs that several machines share are written below a number, which a collection counts up: what is older is relied on no more.
ALTER TABLE chats ADD COLUMN blob_generation INTEGER NOT NULL DEFAULT 0;
