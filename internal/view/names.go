package view

import (
	"fmt"
	"strconv"
	"strings"
)

// handleDigits is the length of a session's handle, and nameDigits that of the part of it that is shown.
const (
	handleDigits = 32
	nameDigits   = 8
)

// SessionName is the name that a session has for people: the beginning of its handle, which gives no right to use it.
func SessionName(handle string) string {
	return handle[:min(nameDigits, len(handle))]
}

// PublicName is a resource's name without the handle of the session whose own it is.
func PublicName(name string) string {
	if len(name) > handleDigits+2 && name[0] == '_' && name[handleDigits+1] == '_' && isHex(name[1:handleDigits+1]) {
		return "_" + SessionName(name[1:]) + name[handleDigits+1:]
	}
	return name
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// StepName is a step's id as text.
func StepName(id uint64) string { return strconv.FormatUint(id, 10) }

// ResourceID is the id of a resource on its task.
func ResourceID(device, container, kind, name string) string {
	if i := strings.Index(device, "/device:"); i >= 0 {
		device = device[i+len("/device:"):]
	}
	return fmt.Sprintf("%s/%s/%s/%s", device, container, kind, PublicName(name))
}

// maxLine is the most bytes of a Line.
const maxLine = 500

// Line is the first line of a text, and no more than fits a listing. An error that begins with the task that it is from goes on with
// its second line.
func Line(text string) string {
	text, rest, more := strings.Cut(text, "\n")
	if more && strings.HasPrefix(text, "From /job:") {
		rest, _, _ = strings.Cut(rest, "\n")
		text += " " + rest
	}
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// TaskOf is the task of a device's full name.
func TaskOf(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	return task
}
