package mapping_test

import (
	"testing"

	_ "github.com/troupe-run/troupe/kernels/all"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
