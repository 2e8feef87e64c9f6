// A box that stays at its end while there comes more, unless somebody has scrolled up to read.
import type { Attachment } from 'svelte/attachments';

/** So near is at the end. */
const NEAR = 48;

/** For the box that scrolls; its first child is what grows. */
export const follow: Attachment<HTMLElement> = (box) => {
  let stuck = true;
  const scrolled = () => (stuck = box.scrollTop + box.clientHeight >= box.scrollHeight - NEAR);
  const grown = new ResizeObserver(() => {
    if (stuck) box.scrollTop = box.scrollHeight;
  });
  box.addEventListener('scroll', scrolled, { passive: true });
  grown.observe(box);
  if (box.firstElementChild) grown.observe(box.firstElementChild);
  return () => {
    box.removeEventListener('scroll', scrolled);
    grown.disconnect();
  };
};
