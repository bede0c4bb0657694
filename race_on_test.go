//go:build race

package troupe

const raceDetector = true
