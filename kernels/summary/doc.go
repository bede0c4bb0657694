// Package summary implements the ops that create summaries and write them to event files.
package summary
