// Package show renders for people what can be seen of a cluster: tables that fit a terminal, and the screen of top. It reads the messages
// of package view and calls no server. Text from clients (names of nodes, queues and sessions, texts of errors) is shown without control
// characters: it cannot control the operator's terminal.
package show
