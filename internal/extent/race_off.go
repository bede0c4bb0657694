//go:build !race

package extent

// RaceDetector reports whether the tests run under the race detector.
const RaceDetector = false
