package cast

import (
	"bytes"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Values of Go's basic types are messages too. What is sent for them are the wrappers that protocol buffers have for such values, so programs in
// other languages need no type of ours.

// wrap returns what is sent for a value of a basic type, or nil for other values.
func wrap(value any) proto.Message {
	switch v := value.(type) {
	case bool:
		return wrapperspb.Bool(v)
	case string:
		return wrapperspb.String(v)
	case []byte:
		return wrapperspb.Bytes(bytes.Clone(v)) // the sender may use its own again
	case int:
		return wrapperspb.Int64(int64(v))
	case int32:
		return wrapperspb.Int32(v)
	case int64:
		return wrapperspb.Int64(v)
	case uint32:
		return wrapperspb.UInt32(v)
	case uint64:
		return wrapperspb.UInt64(v)
	case float32:
		return wrapperspb.Float(v)
	case float64:
		return wrapperspb.Double(v)
	}
	return nil
}

// unwrap returns the value of a wrapper, or nil for other messages. Integers of 64 bits are int64.
func unwrap(message any) any {
	switch m := message.(type) {
	case *wrapperspb.BoolValue:
		return m.GetValue()
	case *wrapperspb.StringValue:
		return m.GetValue()
	case *wrapperspb.BytesValue:
		return m.GetValue()
	case *wrapperspb.Int32Value:
		return m.GetValue()
	case *wrapperspb.Int64Value:
		return m.GetValue()
	case *wrapperspb.UInt32Value:
		return m.GetValue()
	case *wrapperspb.UInt64Value:
		return m.GetValue()
	case *wrapperspb.FloatValue:
		return m.GetValue()
	case *wrapperspb.DoubleValue:
		return m.GetValue()
	}
	return nil
}

// WrapperOf returns the type of what is sent for values of a basic type, such as *wrapperspb.StringValue for string, or nil for other types.
func WrapperOf(t reflect.Type) reflect.Type {
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Struct {
		return nil // the usual messages
	}
	if m := wrap(reflect.Zero(t).Interface()); m != nil {
		return reflect.TypeOf(m)
	}
	return nil
}

// As returns a message that an actor has received as an M: the message itself, or the value of basic type M that it was sent for.
func As[M any](message any) (M, bool) {
	if m, ok := message.(M); ok {
		return m, true
	}
	value := unwrap(message)
	if n, ok := value.(int64); ok && int64(int(n)) == n {
		if m, ok := any(int(n)).(M); ok {
			return m, true
		}
	}
	m, ok := value.(M)
	return m, ok
}
