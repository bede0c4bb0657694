package actors

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// Compression is how the bytes of tensors that are pushed to other tasks are compressed. It is
// a number that the transport defines; 0 means not at all.
type Compression byte

// compression returns the compression that a session's ConfigProto requests in rpc_options, or the server's default if it names no
// algorithm. A name or level that the transport does not know is INVALID_ARGUMENT.
func (t *Task) compression(c *corepb.ConfigProto) (Compression, error) {
	name, level := c.GetRpcOptions().GetCompressionAlgorithm(), c.GetRpcOptions().GetCompressionLevel()
	switch {
	case name == "":
		return t.Defaults.Compression, nil
	case t.ParseCompression == nil:
		return 0, status.InvalidArgumentf("rpc_options.compression_algorithm is %q; there is no compression here", name)
	}
	return t.ParseCompression(name, int(level))
}
