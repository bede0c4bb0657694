//go:build !race

package troupe

const raceDetector = false
