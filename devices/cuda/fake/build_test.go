//go:build linux

package fake

import "testing"

func TestBuild(t *testing.T) { t.Log(Build(t)) }
