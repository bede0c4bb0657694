package view

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// handleDigits is the length of a session's handle, and nameDigits that of its visible part.
const (
	handleDigits = 32
	nameDigits   = 8
)

// States of a task, in Task.State.
const (
	StateUp        = "up"
	StateDown      = "down"       // it was up, and its process or the way to it is gone
	StateNeverSeen = "never seen" // since this process began
	StateSilent    = "silent"     // it is thought to be up, and did not answer in time
)

// Count names a number of things, such as 1 element or 2 elements.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// SessionName returns a session's name for people: the beginning of its handle, which grants no access to the session.
func SessionName(handle string) string {
	return handle[:min(nameDigits, len(handle))]
}

// PublicName returns a resource's name without the handle of the session that it is private to.
func PublicName(name string) string {
	if PrivateTo(name) != "" {
		return "_" + SessionName(name[1:]) + name[handleDigits+1:]
	}
	return name
}

// PrivateTo returns the handle of the session that a resource is private to, according to its name. It is empty for a shared resource.
func PrivateTo(name string) string {
	if len(name) > handleDigits+2 && name[0] == '_' && name[handleDigits+1] == '_' && isHex(name[1:handleDigits+1]) {
		return name[1 : handleDigits+1]
	}
	return ""
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// StepName returns a step's id as text.
func StepName(id uint64) string { return strconv.FormatUint(id, 10) }

// ResourceID returns the id of a resource on its task.
func ResourceID(device, container, kind, name string) string {
	if i := strings.Index(device, "/device:"); i >= 0 {
		device = device[i+len("/device:"):]
	}
	return fmt.Sprintf("%s/%s/%s/%s", device, container, kind, PublicName(name))
}

// maxLine is the maximum number of bytes in a Line.
const maxLine = 500

// Line returns the first line of a text, truncated to fit a listing. If an error's first line only names its task, the second line is
// appended.
func Line(text string) string {
	text, rest, more := strings.Cut(text, "\n")
	if more && strings.HasPrefix(text, "From /job:") {
		rest, _, _ = strings.Cut(rest, "\n")
		text += " " + rest
	}
	return strings.ToValidUTF8(Clip(text, maxLine), "�")
}

// Clip returns a text, truncated to its first most bytes and an ellipsis if it is longer. Use it for client input in listings and events.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Printable returns text in one line, with everything replaced that may control a terminal. Use it for client input that a person may read.
func Printable(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unprintable(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// maxMessageText is the size in bytes up to which Text writes a message.
const maxMessageText = 64 << 10

// Text returns a client's message as text, truncated as by Clip. A message of more than 64 KiB is only named with its size: its text takes
// several times as much memory, which nobody has counted.
func Text(m proto.Message, most int) string {
	if n := proto.Size(m); n > maxMessageText {
		return fmt.Sprintf("a %s of %d bytes", m.ProtoReflect().Descriptor().FullName(), n)
	}
	return Clip(prototext.MarshalOptions{}.Format(m), most)
}

// TaskOf returns the task of a device's full name.
func TaskOf(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	return task
}
