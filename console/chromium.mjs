/** How Debian's Chromium is started where it draws to no screen, and asks nothing of the network by itself. */
export const ARGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-gpu", "--disable-dev-shm-usage"];
