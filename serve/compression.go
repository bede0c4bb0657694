package serve

import (
	"fmt"
	"strconv"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/remote/compress"
)

// compression is the value of a flag: an algorithm and a level, such as zstd or zstd:3.
type compression struct {
	algorithm string
	level     int
}

// Set parses a name that compress.Parse knows, with or without a level.
func (c *compression) Set(text string) error {
	name, digits, given := strings.Cut(text, ":")
	level := 0
	if given {
		var err error
		if level, err = strconv.Atoi(digits); err != nil {
			return fmt.Errorf("%q is not a compression level", digits)
		}
	}
	if _, err := compress.Parse(name, level); err != nil {
		return err
	}
	c.algorithm, c.level = name, level
	return nil
}

// String returns the text that Set parses.
func (c *compression) String() string {
	if c.level == 0 {
		return c.algorithm
	}
	return c.algorithm + ":" + strconv.Itoa(c.level)
}

// Type returns what help calls the flag's value.
func (c *compression) Type() string { return "algorithm" }

// into makes the compression the default of a server's sessions.
func (c *compression) into(config *corepb.ConfigProto) {
	if config.RpcOptions == nil {
		config.RpcOptions = &corepb.RPCOptions{}
	}
	config.RpcOptions.CompressionAlgorithm, config.RpcOptions.CompressionLevel = c.algorithm, int32(c.level)
}
