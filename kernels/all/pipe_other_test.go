//go:build !unix

package all

import "testing"

func makePipe(t *testing.T, _ string) { t.Skip("there are no named pipes") }
