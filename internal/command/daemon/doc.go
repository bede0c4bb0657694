// Package daemon runs servers in a process of their own: its signals, the end of its servers, and the Go runtime's use of memory.
package daemon
