package extent

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// SlackFactor returns how many times longer something may take now than on a quiet machine: longer under the race detector, and when
// programs compete for the processors. It is between 1 and 40, and measured at each call.
func SlackFactor() float64 {
	f := 1.0
	if RaceDetector {
		f = 4
	}
	return f * busy()
}

// Slack widens a time bound by SlackFactor. Use it for bounds that users are promised, which assume a processor for the work. A test that
// waits for a fault to end needs no slack, since its bound is never reached.
func Slack(d time.Duration) time.Duration { return time.Duration(SlackFactor() * float64(d)) }

// busy returns the number of programs per processor that want to run, from 1 to 10: the mean of the last minute or the present number,
// whichever is larger. It is 1 if the system does not report it.
func busy() float64 {
	b, err := os.ReadFile("/proc/loadavg") // proc(5): three means, and runnable/all
	if err != nil {
		return 1
	}
	var mean, five, fifteen, now float64
	if _, err := fmt.Sscanf(string(b), "%g %g %g %g/", &mean, &five, &fifteen, &now); err != nil {
		return 1
	}
	return min(max(1, max(mean, now)/float64(runtime.NumCPU())), 10)
}
