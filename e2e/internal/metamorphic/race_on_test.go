//go:build race

package metamorphic

// raceDetector says that the tests run under the race detector; the binary is built with it then, and
// bounds of time are slackFactor times as wide.
const (
	raceDetector = true
	slackFactor  = 4.0
)
