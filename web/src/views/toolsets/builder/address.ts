/** Where the builder begins. Below `new`, which no toolset can be called. */
export const BUILDER = '/toolsets/new/builder';
