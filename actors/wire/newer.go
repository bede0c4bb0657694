package wire

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"
)

// Newer reads newer fields of a message of TensorFlow, which is well-formed, into more.
func Newer(m, more proto.Message) error { return proto.Unmarshal(m.ProtoReflect().GetUnknown(), more) }

// RemoveFunction returns the item that takes back the registration of a function.
func RemoveFunction(name string) (*corepb.QueueItem, error) {
	b, err := proto.Marshal(&NewerQueueItem{RemoveFunction: &RemoveFunctionOp{FunctionName: []byte(name)}})
	item := &corepb.QueueItem{}
	item.ProtoReflect().SetUnknown(b)
	return item, err
}
