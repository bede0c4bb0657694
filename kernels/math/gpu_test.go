package math

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// TestGPUTypesHaveSuffixes checks that every type of the rows has a name in the CUDA sources.
func TestGPUTypesHaveSuffixes(t *testing.T) {
	for _, d := range castNumbers {
		if launch.Suffixes[d] == "" || launch.SizeSuffix(d) == "" {
			t.Errorf("%v has no suffix", d)
		}
	}
	if len(castNumbers) != len(launch.Suffixes) || slices.Contains(castNumbers, tensor.String) {
		t.Errorf("%d types are cast, %d have suffixes", len(castNumbers), len(launch.Suffixes))
	}
}
