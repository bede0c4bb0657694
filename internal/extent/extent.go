// Package extent defines how many tests run. The environment variable TROUPE_TESTS has one of:
//
//	(nothing)  what a newcomer waits for, and each change must pass: make test
//	check      what each night runs: make check
//	full       everything, however long it takes
package extent

import "os"

// Check reports whether the tests of a night run, which may take minutes each.
func Check() bool { return extent() == "check" || Full() }

// Full reports whether tests run at full length.
func Full() bool { return extent() == "full" }

func extent() string { return os.Getenv("TROUPE_TESTS") }
