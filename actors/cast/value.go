package cast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// Messages of Go types. A program registers them by name, and sends and receives their values. On their way, also to an actor of the same
// task, they are wire.Values.

// values are the Go types that the program has registered.
var values struct {
	sync.RWMutex // guards the rest: programs register types, and actors look them up, on their own goroutines
	types        map[string]reflect.Type
	names        map[reflect.Type]string
}

// valueType is the full name of wire.Value.
var valueType = string((&wire.Value{}).ProtoReflect().Descriptor().FullName())

// RegisterType makes a struct type one of messages, by a name that has the form of a protocol buffer's full name. It returns INVALID_ARGUMENT for
// other types and names, and ALREADY_EXISTS if the name or the type has been registered.
func RegisterType(name string, t reflect.Type) error {
	switch {
	case len(name) > maxType || !protoreflect.FullName(name).IsValid():
		return status.InvalidArgumentf("%.100q is not a name of a message type, as shop.Order is", name)
	case t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[proto.Message]()):
		return status.InvalidArgumentf("%v is no type of messages: it has to be a struct, and not a protocol buffer", t)
	}
	if _, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err == nil {
		return status.Errorf(status.AlreadyExists, "The program has a protocol buffer %s", name)
	}
	values.Lock()
	defer values.Unlock()
	if other, ok := values.types[name]; ok {
		return status.Errorf(status.AlreadyExists, "The message type %s is registered already, for %v", name, other)
	}
	if other, ok := values.names[t]; ok {
		return status.Errorf(status.AlreadyExists, "%v is registered already, as %s", t, other)
	}
	if values.types == nil {
		values.types, values.names = map[string]reflect.Type{}, map[reflect.Type]string{}
	}
	values.types[name], values.names[t] = t, name
	return nil
}

func registeredName(t reflect.Type) (string, bool) {
	values.RLock()
	defer values.RUnlock()
	name, ok := values.names[t]
	return name, ok
}

func registeredType(name string) (reflect.Type, bool) {
	values.RLock()
	defer values.RUnlock()
	t, ok := values.types[name]
	return t, ok
}

// Enclose returns what is sent for a message: a proto.Message, which is returned as it is, or a value of a basic or registered type. It returns nil
// for nil.
func Enclose(message any) (proto.Message, error) {
	switch m := message.(type) {
	case nil:
		return nil, nil
	case proto.Message:
		return m, nil
	}
	if m := wrap(message); m != nil {
		return m, nil
	}
	name, ok := registeredName(reflect.TypeOf(message))
	if !ok {
		return nil, status.InvalidArgumentf("A %T is no message to an actor: that is a protocol buffer, a string, a number, a bool, bytes, "+
			"or a value of a type that RegisterMessage was called for", message)
	}
	b, err := json.Marshal(message)
	if err == nil && (len(b) == 0 || b[0] != '{') {
		err = fmt.Errorf("its JSON is not an object")
	}
	if err != nil {
		return nil, status.InvalidArgumentf("A message %s to an actor cannot be encoded: %v", name, err)
	}
	return &wire.Value{Type: name, Json: b}, nil
}

// Disclose is the inverse of Enclose, except that what was sent for values of basic types stays as it is: As returns their values.
func Disclose(m proto.Message) (any, error) {
	v, ok := m.(*wire.Value)
	if !ok {
		if m == nil { // and not an interface of a type
			return nil, nil
		}
		return m, nil
	}
	t, ok := registeredType(v.GetType())
	if !ok {
		return nil, status.InvalidArgumentf("The program does not know messages of type %.200q", v.GetType())
	}
	p := reflect.New(t)
	if err := json.Unmarshal(v.GetJson(), p.Interface()); err != nil {
		return nil, status.InvalidArgumentf("A message is not a %s: %v", v.GetType(), err)
	}
	return p.Elem().Interface(), nil
}

// valueFromJSON returns a message of a registered type from its JSON with "@type"; ok is false if that names another type.
func valueFromJSON(text, name string) (r Raw, ok bool, err error) {
	if _, ok := registeredType(name); !ok {
		return r, false, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return r, true, status.InvalidArgumentf("The JSON is not that of a message: %v", err)
	}
	var outer string // the type may have been found further inside
	if typed := json.Unmarshal(fields["@type"], &outer) == nil; !typed || TypeName(outer) != name {
		return r, false, nil
	}
	delete(fields, "@type")
	b, err := json.Marshal(fields)
	if err != nil {
		return r, true, status.InvalidArgumentf("The JSON is not that of a message: %v", err)
	}
	data, err := proto.Marshal(&wire.Value{Type: name, Json: b})
	return Raw{valueType, data}, true, err
}

// valueToJSON is the inverse of valueFromJSON.
func valueToJSON(r Raw) (string, error) {
	var v wire.Value
	if err := proto.Unmarshal(r.Data, &v); err != nil {
		return "", status.InvalidArgumentf("A message is not a %s: %v", r.Type, err)
	}
	out := bytes.NewBufferString(`{"@type":"` + typePrefix + v.GetType() + `"`)
	begin := out.Len()
	if err := json.Compact(out, v.GetJson()); err != nil || !protoreflect.FullName(v.GetType()).IsValid() || out.Bytes()[begin] != '{' {
		return "", status.InvalidArgumentf("A message is not a %.200q: its JSON is not that of an object", v.GetType())
	}
	b := out.Bytes()
	if b[begin] = ','; b[begin+1] == '}' {
		b = append(b[:begin], '}')
	}
	if len(b) > MaxMessage {
		return "", status.Errorf(status.ResourceExhausted, "A message %s of an actor takes %d bytes as JSON, the limit is %d", v.GetType(), len(b), MaxMessage)
	}
	return string(b), nil
}
