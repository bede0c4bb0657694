// Package show renders for people what can be seen of a cluster: tables that fit a terminal, and the screen of top. It
// reads the messages of package view and asks nobody. What comes from clients (names of nodes, queues and sessions, texts of
// errors) is shown without control characters, so that it cannot steer the operator's terminal.
package show
