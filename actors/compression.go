package actors

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// Compression tells how the bytes of tensors that are pushed to other tasks are made smaller. It is
// a number of the transport's; 0 leaves them as they are.
type Compression byte

// compression reads what a session's ConfigProto asks for in rpc_options; where it names no
// algorithm, the server's default holds. A name or level that the transport does not know is
// INVALID_ARGUMENT.
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
