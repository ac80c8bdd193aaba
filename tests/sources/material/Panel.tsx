import { useState, type ReactNode } from "react";

type Props<T extends { id: string }> = {
  items: Array<T>;
  render: (item: T) => ReactNode;
  limit?: number;
};

export function Panel<T extends { id: string }>({ items, render, limit = 10, ...rest }: Props<T>) {
  const [open, setOpen] = useState<Record<string, boolean>>({});
  const shown = items.slice(0, limit < 1 ? 1 : limit);

  if (shown.length === 0) return <></>;
  return (
    <section {...rest} className={`panel ${open["all"] ? "open" : ""}`}>
      {shown.map((item) => (
        <button key={item.id} onClick={() => setOpen({ ...open, [item.id]: !open[item.id] })}>
          <b>{item.id}</b> {open[item.id] && <div>{render(item)}</div>}
        </button>
      ))}
      <MAX_LENGTH value={limit as unknown as number} /> {"<end>"}
    </section>
  );
}
