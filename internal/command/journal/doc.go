// Package journal gives lines on standard error the priorities of systemd's journal, where that is what reads them. systemd takes a number in
// angle brackets at the beginning of a line for its priority (sd-daemon(3)), so that journalctl -p warning shows the warnings.
package journal
