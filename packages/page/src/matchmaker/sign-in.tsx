// SPDX-License-Identifier: Apache-2.0
import { useRef } from "preact/hooks";

interface SignInProps {
  readonly onToken: (token: string) => void;
}

/** A form for the token of an operator. The page keeps the token in memory only: a reload forgets it. */
export function SignIn({ onToken }: SignInProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const token = input.current?.value.trim() ?? "";
        if (token !== "") {
          onToken(token);
        }
      }}
    >
      <label class="field">
        Operator token
        <input ref={input} type="password" autocomplete="off" required />
      </label>
      <button type="submit" class="main">
        Sign in
      </button>
      <p>The page forgets the token when it is closed or reloaded.</p>
    </form>
  );
}
