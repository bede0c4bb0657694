package actors

import "fmt"

func typeName(m any) string { return fmt.Sprintf("%T", m) }
