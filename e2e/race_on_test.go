//go:build race

package e2e

// raceDetector says that the tests run under the race detector; the binary is built with it then.
const raceDetector = true
