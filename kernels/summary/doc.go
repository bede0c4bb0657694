// Package summary holds the ops that make summaries and write them to event files.
package summary
