// A box that stays at its end while there comes more, unless somebody has scrolled up to read.
import type { Attachment } from 'svelte/attachments';

/** So near is at the end. */
const NEAR = 48;

/** For the box that scrolls; its first child is what grows. */
export const follow: Attachment<HTMLElement> = (box) => {
  let stuck = true;
  let before = box.scrollTop;
  // It may have grown again since it was scrolled to its end, so only who goes up leaves the end.
  const scrolled = () => {
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - NEAR) stuck = true;
    else if (box.scrollTop < before) stuck = false;
    before = box.scrollTop;
  };
  const grown = new ResizeObserver(() => {
    if (stuck) box.scrollTop = box.scrollHeight;
    // What has shrunk is scrolled by the browser, not by anybody.
    before = box.scrollTop;
  });
  box.addEventListener('scroll', scrolled, { passive: true });
  grown.observe(box);
  if (box.firstElementChild) grown.observe(box.firstElementChild);
  return () => {
    box.removeEventListener('scroll', scrolled);
    grown.disconnect();
  };
};
