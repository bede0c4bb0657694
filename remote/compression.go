package remote

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/compress"
)

// ParseCompression parses the name and level of the algorithm for tensors pushed between tasks, as compress.Parse does.
func ParseCompression(name string, level int) (actors.Compression, error) {
	a, err := compress.Parse(name, level)
	return actors.Compression(a), err
}
