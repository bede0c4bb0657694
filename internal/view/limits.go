package view

import "time"

// Limits of queries, which whoever asks is held to.
const (
	// MostListed is the largest number of entries of a section that a look at a task lists.
	MostListed = 1 << 14
	// MaxTraceTime is the longest trace, and MaxTraceSteps bounds the steps that it is asked to record.
	MaxTraceTime  = 60 * time.Second
	MaxTraceSteps = 10000
	// MaxTraceEvents bounds the events that a task records for a trace, and MaxTraceBytes their approximate size.
	MaxTraceEvents = 1 << 20
	MaxTraceBytes  = 128 << 20
)
