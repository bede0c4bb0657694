package graph

import (
	_ "embed" // for the declarations
	"os"
	"sync"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// OpDef is an op's declaration: its arguments, attributes and properties.
type OpDef = oppb.OpDef

// opList is an OpList message with the declarations of TensorFlow 2.21, written by
// opdef/generate.py. It is searched as it is: a process decodes only the ops that its graphs use.
//
//go:embed opdef/ops.pb
var opList string

// declarations maps an op's name to its encoded OpDef, a part of opList.
var declarations = sync.OnceValue(func() map[string]string {
	index := make(map[string]string, 2048)
	for rest := opList; rest != ""; {
		var op string
		op, rest = bytesField(rest)
		name, _ := bytesField(op)
		index[name] = op
	}
	return index
})

// bytesField cuts the first field, which must be number 1 and a string or message, off a message of opList. The list is embedded in the
// program, so a malformed one is a bug.
func bytesField(msg string) (field, rest string) {
	head := []byte(msg[:min(len(msg), 16)])
	num, typ, n := protowire.ConsumeTag(head)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		panic("graph: opdef/ops.pb is malformed")
	}
	size, m := protowire.ConsumeVarint(head[n:])
	if m < 0 || size > uint64(len(msg)-n-m) {
		panic("graph: opdef/ops.pb is malformed")
	}
	end := n + m + int(size)
	return msg[n+m : end], msg[end:]
}

// signatures caches the *signature of each op looked up, by op name.
var signatures sync.Map

// LookupOp returns the declaration of one of TensorFlow's ops or of Troupe's own, or NOT_FOUND for an unknown name. The message is
// shared and must not be changed. It may be called concurrently.
func LookupOp(name string) (*OpDef, error) {
	s, err := lookupSignature(name)
	if err != nil {
		return nil, err
	}
	return s.def, nil
}

func lookupSignature(name string) (*signature, error) {
	if s, ok := signatures.Load(name); ok {
		return s.(*signature), nil
	}
	def := ownOps()[name]
	if def == nil {
		encoded, ok := declarations()[name]
		if !ok {
			return nil, opNotFound(name)
		}
		def = &OpDef{}
		if err := proto.Unmarshal([]byte(encoded), def); err != nil {
			return nil, status.Internalf("The declaration of op '%s' cannot be read: %v", name, err)
		}
	}
	s, err := compile(def)
	if err != nil {
		return nil, err
	}
	// Two goroutines may get here with the same op, and both must return the same OpDef.
	shared, _ := signatures.LoadOrStore(def.Name, s)
	return shared.(*signature), nil
}

// isOp reports whether there is an op of that name.
func isOp(name string) bool {
	_, ok := declarations()[name]
	return ok || ownOps()[name] != nil
}

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return "an unnamed host"
	}
	return name
})

func opNotFound(name string) error {
	return status.Errorf(status.NotFound, "Op type not registered '%s' in binary running on %s. "+
		"Make sure the Op and Kernel are registered in the binary running in this process. "+
		"Troupe knows the ops of TensorFlow 2.21; ops from libraries loaded by the client are not among them.", name, hostname())
}
