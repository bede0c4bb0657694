package pipeline

import "time"

// Stats reports the progress of one side of a pipeline, and which side waits for the other. For a producer, a growing Waiting means that it
// is faster than the consumers, and a growing Idle that it is the slow side. For a consumer, Waiting is the time that its loop waited for
// elements, and Idle is the time that its fetched batches waited for the loop.
type Stats struct {
	// Elements is the number of elements that entered the queue, or reached the loop, in Steps steps.
	Elements, Steps int64
	Waiting, Idle   time.Duration
	// Expired is the number of elements that a consumer's loop used and whose lease had ended before they were acknowledged: they are
	// delivered again.
	Expired int64
	// Running is the time since the start.
	Running time.Duration
}

// Rate returns the average number of elements per second since the start.
func (s Stats) Rate() float64 {
	if s.Running <= 0 {
		return 0
	}
	return float64(s.Elements) / s.Running.Seconds()
}

// counters are Stats that are being counted.
type counters struct {
	elements, steps, expired int64
	waiting, idle            time.Duration
	start                    time.Time
}

func started() counters { return counters{start: time.Now()} }

func (c *counters) stats() Stats {
	return Stats{Elements: c.elements, Steps: c.steps, Waiting: c.waiting, Idle: c.idle, Expired: c.expired, Running: time.Since(c.start)}
}
